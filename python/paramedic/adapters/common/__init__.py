"""What the adapters of all frameworks are made of.

`session` (the ring, the step, and that nothing raises), `source` and `stacks` (whose code runs),
`stalls` (a thread that looks whether the job goes on), `pace` and `profile` (where the time of a
rank goes), `facts` (versions and code) and `ending`. No framework is named here.
"""
