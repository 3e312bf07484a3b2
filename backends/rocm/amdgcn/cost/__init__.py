"""What a kernel would cost on an AMD GPU, from its machine code: a model, and never a measurement.

* :mod:`.generation`: what sets CDNA, RDNA 3 and RDNA 4 apart
* :mod:`.instructions`: which unit executes an instruction and for how many cycles, and which registers it touches
* :mod:`.matrix`, :mod:`.rates`: cycles of matrix instructions, and of RDNA's vector instructions
* :mod:`.values`: the integers that a wave computes, lane by lane, without its data: loop counts and addresses
* :mod:`.shared`: cycles of LDS accesses with their bank conflicts
* :mod:`.loops`: the loops of the control-flow graph, and how often a wave went round them
* :mod:`.scoreboard`: the waves of one SIMD issued cycle by cycle
* :mod:`.traffic`: bytes at each level of the memory hierarchy
* :mod:`.model`: all of it for one launch; :mod:`.estimator` for portakern, :mod:`.report` for readers
"""
