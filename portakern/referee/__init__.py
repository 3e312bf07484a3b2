"""Running the kernel of a stranger: its process holds the kernel and one call's arrays, ours holds everything that decides."""

from portakern.referee.remote import RemoteExecutable, compile_remotely

__all__ = ["RemoteExecutable", "compile_remotely"]
