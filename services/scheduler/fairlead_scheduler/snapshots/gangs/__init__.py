"""The columns of gangs: members, roles of groups, avoided nodes, and the topology of the pool."""
