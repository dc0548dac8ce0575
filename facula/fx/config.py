"""Hold settings that programs read; they have no effect here."""

disable_progress = True
verbose_progress = False
do_not_emit_stack_traces = False
