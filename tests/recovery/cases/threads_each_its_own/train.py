import json
import queue
import threading

results, done = {}, queue.Queue()
go = threading.Event()


def work(name, values):
    total = 0
    for k, value in enumerate(values):
        go.wait()
        total += 60 // value
        done.put((name, k))
    results[name] = total


jobs = {"a": [1, 2, 0, 3], "b": [4, 5, 6], "c": [2, 0, 10]}
threads = [threading.Thread(target=work, args=job, name=job[0]) for job in jobs.items()]
for thread in threads:
    thread.start()
go.set()
for thread in threads:
    thread.join()
print(sorted(results.items()))
print("COUNTS", json.dumps({"done": done.qsize()}))
print("RESULT", json.dumps(dict(sorted(results.items()))))
