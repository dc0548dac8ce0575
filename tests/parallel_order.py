"""Share tests among the processes that run them (`-n auto`): those of one file at a time, which share what they have built.

Files with most tests marked `slow` stand first, the others last, most tests at the very end. Half of the processes begin with the first file,
half with the last: slow tests mostly wait for processes that they have started, and leave the processor to others. Where they meet files are
small, so that nobody is waited for.
"""

from collections import Counter

from xdist.scheduler import LoadFileScheduling


def in_order(items):
    """Tests in the order of files that is meant here."""
    slow, size = Counter(), Counter()
    for item in items:
        size[item.path] += 1
        slow[item.path] += item.get_closest_marker("slow") is not None
    return sorted(items, key=lambda item: (-slow[item.path], size[item.path], item.path))


class FromBothEnds(LoadFileScheduling):
    def __init__(self, config, log=None):
        super().__init__(config, log)
        config.option.loadscopereorder = False  # the order of items stays

    def _assign_work_unit(self, node):
        if int(node.gateway.id.removeprefix("gw")) % 2:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)
