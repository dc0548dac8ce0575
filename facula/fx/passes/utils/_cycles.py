"""Whether some nodes of a graph can become one."""


def leads_back(inner):
    """Whether something that a set of nodes needs from outside is computed from them.

    Args:
        inner: the nodes, a set.
    """
    seen = set()
    pending = [user for node in inner for user in node.users if user not in inner]
    while pending:
        node = pending.pop()
        if node in inner:
            return True
        if node not in seen:
            seen.add(node)
            pending.extend(node.users)
    return False
