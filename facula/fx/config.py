"""Settings that programs read; they change nothing here."""

disable_progress = True
verbose_progress = False
do_not_emit_stack_traces = False
