"""The folder of the PyInstaller hook. PyInstaller finds it by hook_dirs, an entry point of pyproject.toml."""


def hook_dirs() -> list[str]:
    return [*__path__]
