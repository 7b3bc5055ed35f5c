import asyncio
import concurrent.futures
import json


def area(text):
    width, height = text.split("x")
    return int(width) * int(height)


async def wait(seconds):
    if seconds > 1:
        await asyncio.sleep(seconds)
    if seconds < 0:
        raise ValueError(f"{seconds} seconds")
    return seconds


async def main():
    got = await asyncio.gather(wait(0), wait(-1), wait(1), return_exceptions=True)
    try:
        got.append(await asyncio.wait_for(wait(30), timeout=0.01))
    except asyncio.TimeoutError:
        got.append("late")
    return got


log = []
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    jobs = [pool.submit(area, text) for text in ("2x3", "4", "5xx", "1x1")]
    for job in jobs:
        error = job.exception()
        log.append(type(error).__name__ if error else job.result())
    try:
        log += pool.map(area, ["3x3", "bad"])
    except ValueError as error:
        log.append(str(error))
print(log, [repr(v) for v in asyncio.run(main())])
print("RESULT", json.dumps({"log": log}))
