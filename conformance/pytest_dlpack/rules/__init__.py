"""The rules that dlpack.h, its Python specification and the array API standard have for producers and consumers."""

from . import consumer, exchange_api, producer
from .rule import Rule, found

RULES = {rule.id: rule for rule in sorted(found, key=lambda rule: rule.side, reverse=True)}  # producers first

__all__ = ["RULES", "Rule", "consumer", "exchange_api", "producer"]
