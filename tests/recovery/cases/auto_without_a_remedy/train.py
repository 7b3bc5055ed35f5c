import atexit
import json


@atexit.register
def goodbye():
    print("atexit ran")


class Checker:
    def check(self, values):
        for n, value in enumerate(values):
            assert value < 3, f"value {n} is {value}"

    def run(self, values):
        try:
            print("checking")
            self.check(values)
        finally:
            print("finally ran")


Checker().run([1, 2])
error = (lambda: Checker().run([1, 2, 3]))
print("RESULT", json.dumps({"never": error()}))
