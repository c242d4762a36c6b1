"""alveus behind the interfaces of other frameworks. Each module needs its framework and extra.

No other part of alveus imports these modules. Each is a thin layer over the public calls of
`alveus`.
"""
