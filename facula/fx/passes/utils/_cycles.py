"""Decide whether some nodes of a graph can become one without a cycle."""


def leads_back(inner, together=lambda node: (node,)):
    """Return whether something that a set of nodes needs from outside is computed from them.

    Args:
        inner: the nodes, a set.
        together: the nodes, with the one given, that count as one.
    """
    seen = set()
    pending = [user for node in inner for user in node.users if user not in inner]
    while pending:
        node = pending.pop()
        if node in inner:
            return True
        if node not in seen:
            group = together(node)
            seen.update(group)
            pending.extend(user for member in group for user in member.users if user not in seen)
    return False
