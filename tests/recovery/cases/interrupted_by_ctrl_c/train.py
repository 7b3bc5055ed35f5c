import os
import time

with open("pid", "w") as file:
    file.write(str(os.getpid()))
try:
    for step in range(600):
        print("step", step, flush=True)
        time.sleep(0.05)
finally:
    print("finally ran", flush=True)
