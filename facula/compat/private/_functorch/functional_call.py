"""Call modules with other parameters than their own."""

from facula.func import functional_call, stack_module_state

__all__ = ["functional_call", "stack_module_state"]
