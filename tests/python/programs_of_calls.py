"""Programs of recovery_programs.py: calls, closures, generators, coroutines, threads."""

from typing import Dict

PROGRAMS: Dict[str, str] = {}


def program(name: str, text: str) -> None:
    PROGRAMS[name] = text


program(
    "callees_do_not_repeat_their_effects",
    """
    log = []
    def inner(x):
        log.append(("inner", x))
        flaky()
        log.append(("left", x))
        return x
    def middle(x):
        log.append(("middle", x))
        return inner(x) + inner(x + 1)
    def outer():
        return [middle(i) for i in range(2)] + [middle(9)]
    result = outer(), log
    """,
)
program(
    "methods_super_and_private_names",
    """
    class A:
        def __init__(self):
            self.__hidden = 1
        def value(self):
            flaky()
            return self.__hidden
    class B(A):
        def __init__(self):
            flaky()
            super().__init__()
            self.__hidden = 10
        def value(self):
            __local = flaky()
            return super().value() + self.__hidden + __local
        @property
        def shown(self):
            flaky()
            return self.value()
        @classmethod
        def make(cls):
            flaky()
            return cls()
        @staticmethod
        def plain(x):
            return x + flaky()
    class C(B):
        def __setattr__(self, key, value):
            flaky()
            super().__setattr__(key, value)
        def captured(self, a, z):
            read = lambda: self
            flaky()
            return super().value() + a + z + read().__dict__["k"]
    c = C()
    c.k = 4
    result = B().value(), B.make().shown, B.plain(3), B.__name__, c.captured(1, 2)
    """,
)
program(
    "closures_share_their_variables",
    """
    def make():
        count, seen = 0, []
        def add(x):
            nonlocal count
            count += x
            flaky()
            count += 10
            seen.append(count)
            return count
        def read():
            return count
        return add, read, seen
    add, read, seen = make()
    add(1)
    add(2)
    result = read(), seen
    """,
)
program(
    "a_local_function_sees_the_locals_of_a_continued_frame",
    """
    def f():
        x = 1
        def read():
            return x
        flaky()
        x = 2
        before = read()
        flaky()
        x += 1
        return before, read(), (lambda: x)()
    result = f()
    """,
)
program(
    "globals_and_names_of_builtins",
    """
    total = 0
    rate = 0.5
    def other():
        return rate
    def f():
        global total
        rate = 10
        total += 1
        flaky()
        total += 1
        if total < 0:
            input = 1
        try:
            return input
        except UnboundLocalError:
            return total, rate, other()
    result = f(), total
    """,
)
program(
    "recursion",
    """
    def fac(n):
        if n <= 1:
            return flaky()
        below = fac(n - 1)
        flaky()
        return n * below
    result = fac(8)
    """,
)
program(
    "generators",
    """
    def numbers(n):
        for i in range(n):
            flaky()
            got = yield i
            if got:
                flaky()
                yield got
        return "end"
    def outer():
        value = yield from numbers(3)
        flaky()
        yield value
    g = outer()
    log = [next(g), g.send("sent"), *g]
    result = log
    """,
)
program(
    "a_generator_that_is_closed_in_its_continuation",
    """
    log = []
    def numbers():
        try:
            flaky()
            while True:
                yield 1
        finally:
            log.append("closed")
    g = numbers()
    log.append(next(g))
    g.close()
    result = log
    """,
)
program(
    "coroutines",
    """
    import asyncio
    log = []
    class Open:
        async def __aenter__(self):
            log.append("in")
            return self
        async def __aexit__(self, *error):
            log.append(("out", error[0]))
    class Count:
        def __init__(self):
            self.n = 0
        def __aiter__(self):
            return self
        async def __anext__(self):
            await asyncio.sleep(0)
            self.n += 1
            if self.n > 3:
                raise StopAsyncIteration
            return self.n
    async def items():
        for i in range(2):
            flaky()
            got = yield i
            log.append(got)
    async def work():
        flaky()
        async with Open() as opened:
            async for n in Count():
                flaky()
                log.append(n)
            else:
                log.append("else")
        async for i in items():
            flaky()
            log.append(i)
        squares = [x * x async for x in Count()]
        return await asyncio.sleep(0, squares)
    async def main():
        value = await work()
        flaky()
        return value
    result = asyncio.run(main()), log
    """,
)
program(
    "threads",
    """
    import threading
    out = {}
    def work(k):
        mine = k
        for i in range(3):
            mine += flaky() * i
        out[k] = mine
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    result = out
    """,
)
program(
    "comprehensions_are_retried_with_their_statement_and_lambdas_go_on",
    """
    def f():
        double = lambda x: x * 2 * flaky()
        a = [double(i) for i in range(1)]
        b = {i: flaky() for i in range(1)}
        c = list(map(lambda i: i + flaky(), [1]))
        d = sum(flaky() for _ in range(1))
        return a, b, c, d
    result = f()
    """,
)
program(
    "hidden_names_stay_hidden",
    """
    def f(a):
        with open(__file__) as b:
            for c in range(1):
                flaky()
                names = sorted(locals()), sorted(dir()), sorted(vars())
        return names
    result = f(1)
    """,
)
program(
    "decorated_functions",
    """
    import functools
    def twice(f):
        @functools.wraps(f)
        def call(*args):
            flaky()
            return f(*args), f(*args)
        return call
    @twice
    @functools.lru_cache
    def g(x):
        '''Says it.'''
        flaky()
        return x + 1
    result = g(1), g.__doc__, g.__name__
    """,
)
