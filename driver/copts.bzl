# For what posts and polls: one register more, and no fields of a queue that travel together in a vector register, which
# costs more to take apart than it saves.
HOT_PATH_COPTS = [
    "-fomit-frame-pointer",
    "-fno-tree-slp-vectorize",
]
