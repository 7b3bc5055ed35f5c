import json

print("before")
import tables  # noqa: E402

print("after", sorted(tables.SIZES), tables.made)
print("COUNTS", json.dumps({"made": tables.made}))
print("RESULT", json.dumps(tables.SIZES))
