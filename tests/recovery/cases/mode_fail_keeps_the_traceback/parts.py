def rows(text):
    for part in text.split(";"):
        name, value = part.split("=")
        yield name, int(value)
