import time

import torch
import torch.distributed as dist


def solve(task):
    torch.manual_seed(task)
    until, best = time.time() + 9.0, 0.0
    while time.time() < until:
        m = torch.randn(40, 40)
        best = max(best, torch.linalg.eigvals(m).abs().max().item())
    return best


def master(world, tasks):
    results, open_workers = [], world - 1
    answer = torch.empty(2)
    while open_workers:
        who = dist.recv(answer)
        if answer[0] >= 0:
            results.append(answer[1].item())
            print("task", int(answer[0]), "gives %.3f" % answer[1].item(), flush=True)
        task = tasks.pop() if tasks else -1
        open_workers -= task < 0
        dist.send(torch.tensor([float(task)]), dst=who)
    print("best", max(results), flush=True)


def worker():
    answer = torch.tensor([-1.0, 0.0])
    while True:
        dist.send(answer, dst=0)
        task = torch.empty(1)
        dist.recv(task, src=0)
        if task < 0:
            return
        answer = torch.tensor([task.item(), solve(int(task))])


dist.init_process_group("gloo")
if dist.get_rank() == 0:
    master(dist.get_world_size(), list(range(6)))
else:
    worker()
dist.barrier()
dist.destroy_process_group()
