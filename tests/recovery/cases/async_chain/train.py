import asyncio
import json

log = {"fetched": 0, "scored": 0, "entered": 0, "left": 0, "slept": 0}


class Session:
    async def __aenter__(self):
        log["entered"] += 1
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *error):
        log["left"] += 1
        return False

    async def shards(self, n):
        for k in range(n):
            await asyncio.sleep(0)
            log["fetched"] += 1
            yield list(range(k % 4))


async def score(shard):
    log["scored"] += 1
    await asyncio.sleep(0)
    mean = sum(shard) / len(shard)
    log["slept"] += 1
    await asyncio.sleep(0)
    return mean


async def main():
    scores = []
    async with Session() as session:
        async for shard in session.shards(7):
            scores.append(await score(shard))
    return scores


scores = asyncio.run(main())
print(scores)
print("COUNTS", json.dumps(log))
print("RESULT", json.dumps({"scores": scores}))
