"""`convertor infer`: images to a served model, its answer as a table or JSON.

images       a file -> upright RGB uint8, or one line
endpoint     --url and --protocol -> where the server is
call         the server, its models, one request
results      the answer's capture JSON -> frozen values
overlay      where each image's overlay goes
show         a result as a table; progress
command      the sub-command
"""
