import json

from parts import rows


class ConfigError(Exception):
    pass


def load(text):
    try:
        return {name: value for name, value in rows(text)}
    except ValueError as error:
        raise ConfigError("cannot read the table") from error


print(load("a=1;b=2"))
print("RESULT", json.dumps(load("a=1;b")))
