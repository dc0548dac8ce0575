"""Number the kinds of messages. Each of the first six is answered by RESULT or ERROR; the others have no answer."""

CALL, REMOTE, INVOKE, FETCH, GRADIENTS, GATHER, RESULT, ERROR, FORK, FORKED, ACCEPT, DELETE, RELEASE, BYE = range(14)

#: what is counted to find out whether all is answered
COUNTED = frozenset({CALL, REMOTE, INVOKE, FETCH, GRADIENTS})
