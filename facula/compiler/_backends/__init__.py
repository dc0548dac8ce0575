"""Define the backends of `torch.compile`.

registry    their names
common      backends that are given a graph in the names of aten
debugging   backends that explain or record
stretches   graphs of the ops that wait between two demands of the program
graphs      stretches on CUDA as captured graphs
aten_names  graphs in the names of aten
"""
