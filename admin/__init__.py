"""Administration of a cluster: the commands, the admin service, the runner of a local cluster.

Today only the command `floodmark up` is here, and it only says what is missing. To come: the
gRPC service `floodmark.admin.v1` and its client, a command per noun (topic, group, cluster, ...),
the runner of a local cluster, the web console.
"""
