"""PyInstaller calls hook_dirs, the entry point of pyproject.toml, to find the hook that lies here."""


def hook_dirs() -> list[str]:
    return [*__path__]
