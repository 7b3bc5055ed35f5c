for n in [4, 2, 0, 1]:
    print(n)
