import json
import sys

seen = []


class BadShard(Exception):
    pass


def read(shards, number):
    try:
        return shards[number].upper()
    except (KeyError, AttributeError) as error:
        seen.append(type(error).__name__)
        names = {k: len(v) for k, v in shards.items() if k != number}
        seen.append(sys.exc_info()[1] is error)
        raise BadShard(f"shard {number} of {names}") from error


def read_all(shards, numbers):
    out = []
    for number in numbers:
        try:
            out.append(read(shards, number))
        except BadShard as bad:
            out.append(type(bad.__cause__).__name__)
            seen.append(str(bad))
    return out


out = read_all({0: "zero", 1: "one", 2: 2}, [0, 2, 7, 1])
print(seen)
print("COUNTS", json.dumps({"seen": len(seen)}))
print("RESULT", json.dumps({"out": out}))
