"""The worker process: claims runs, activates them in confined children, appends, keeps warm, lets go."""

from sandbox.worker.process import run

__all__ = ["run"]
