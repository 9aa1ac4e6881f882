"""Where and how work runs: executors, shards of samples, the store of compiled networks, and files written whole.

executors.py     this process, several processes, a Dask cluster, any executor     shards.py   a profile on workers
held_options.py  what a policy's file says of a whole run                          profiler.py ranges from samples
cached.py        machine code kept on disk     files.py  whole or not at all       yaml_files.py  YAML with places

Files and executors know nothing of networks; the others stand above the passes, and below or beside the compiler.
"""
