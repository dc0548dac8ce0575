"""Find ops by name, and register the operators that programs define.

namespaces   `torch.ops`: operators by namespace, with their overloads
aten_parts   operators of `torch.ops.aten` that no public function is
native       kernels of operators that libraries in C++ bring
schemas      schemas by the annotations of functions
opcheck      tests of an operator against what it was registered with
pointwise    names of functions that work element by element
"""
