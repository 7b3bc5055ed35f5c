import json

class Response:
    def __init__(self, status, body=None):
        self.status, self.body = status, body

class Client:
    answers = iter([200, 503, 502, 200, 200, 200])
    def get(self, k):
        status = next(self.answers)
        return Response(status, {"k": k})

def download(client, k):
    response = client.get(k)
    if response.status >= 500:
        raise RuntimeError(f"HTTP {response.status}: Service Unavailable")
    return response.body

client = Client()
got = [download(client, k)["k"] for k in range(3)]
print(got)
print("RESULT", json.dumps({"got": got}))
