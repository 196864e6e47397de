"""What activations used since the last append: usage that no command has carried yet."""

from collections.abc import Sequence


class Report:
    def __init__(self) -> None:
        self.cpu_us = 0
        self.activations = 0
        self.waits_done: list[int] = []

    def add(self, cpu_us: int, activations: int, waits_done: Sequence[int]) -> None:
        self.cpu_us += cpu_us
        self.activations += activations
        self.waits_done += waits_done
