"""The compile cache, tools in child processes with limits, worker processes, and what this machine has."""
