"""Several machines that judge together, with Ray: what each can judge are its resources, what is asked and found a store.

:mod:`resources`   what a node has, and what a job needs
:mod:`keeper`      the process that holds a node's Ray processes, and starts them again
:mod:`dispatcher`  the process beside the head that hands jobs of the store to nodes, and keeps the rows
:mod:`judging`     what a worker on a node does
:mod:`fleet`       the side of whoever asks
"""
