"""-k: words joined by and, or, not and parentheses, as in pytest. A word is true of a text that contains it."""

import ast
import re

GRAMMAR = (
    ast.Expression,
    ast.BoolOp,
    ast.boolop,
    ast.UnaryOp,
    ast.Not,
    ast.Subscript,
    ast.Name,
    ast.Load,
    ast.Constant,
)


class Expression:
    """Raises ValueError where the text is no expression. An empty one is true of everything."""

    def __init__(self, text: str) -> None:
        self.words: list[str] = []
        tokens = re.findall(r"[()]|[^\s()]+", text)
        python = " ".join(token if token in ("(", ")", "and", "or", "not") else self._word(token) for token in tokens)
        try:
            tree = ast.parse(python or "True", mode="eval")
            if not all(isinstance(node, GRAMMAR) for node in ast.walk(tree)):
                raise SyntaxError
            self._code = compile(tree, "-k", "eval")
        except (SyntaxError, RecursionError, MemoryError):
            raise ValueError(f"-k {text!r}: expected words joined by and, or, not and parentheses") from None

    def _word(self, token: str) -> str:
        self.words.append(token.lower())
        return f"word[{len(self.words) - 1}]"

    def __call__(self, text: str) -> bool:
        found = [word in text.lower() for word in self.words]
        return bool(eval(self._code, {"__builtins__": {}}, {"word": found}))
