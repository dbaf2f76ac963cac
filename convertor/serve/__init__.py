"""`convertor serve REPOSITORY`: a stock Triton server on a model repository, on this machine.

command.py    the sub-command: arguments, what is printed, exit status
preflight.py  what can be seen before starting: the repository, the interpreter, NumPy, shared memory
embedded.py   which server: a `tritonserver` on PATH, else the stock one of nvidia-pytriton's wheel
ports.py      free ports, kept from other servers started by this tool
process.py    `running_server`: start, wait until it is ready, stop
readiness.py  which models are ready, from the server's repository index
reasons.py    one line for why a model, or the server, failed
"""
