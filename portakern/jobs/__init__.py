"""Tasks and jobs as data: what is asked of a judge in another process, on another machine, or by somebody unknown."""
