import json

seen = {'steps': 0}
X = [((i * 37) % 64) / 64 for i in range(64)]
Y = [i % 3 for i in range(64)]


class Net:
    w = [0.1, 0.2]
    def predict(self):
        return [int(abs(self.w[0] * x * 9 + self.w[1])) % 3 for x in X]
    def state(self):
        return {'w': list(self.w)}


class Opt:
    param_groups = [{'lr': 0.1}]


net, opt = Net(), Opt()


def train_on(x, y, scale=1.0):
    seen['steps'] += 1
    errors = [(net.w[0] * a + net.w[1] - b) * scale for a, b in zip(x, y)]
    net.w[0] -= opt.param_groups[0]['lr'] * sum(e * a for e, a in zip(errors, x)) / len(x)
    net.w[1] -= opt.param_groups[0]['lr'] * sum(errors) / len(x)
    return sum(e * e for e in errors) / len(x)


def finish(**more):
    print('COUNTS', json.dumps(seen))
    print('RESULT', json.dumps({'w': [round(v, 6) for v in net.w], **more}))


def make_step(opts):
    smoothing = 0.3
    def step(x, y, epoch):
        factor = smoothing if epoch else 1.0
        if epoch:
            factor = factor * opts['scale']
        return train_on(x, y, factor)
    return step
def main():
    step = make_step({})
    for epoch in range(3):
        for i in range(0, 64, 16):
            loss = step(X[i:i+16], Y[i:i+16], epoch)
        print(epoch, round(loss, 5))
    finish()
main()
