"""`isolation = "process"`: a plugin's code runs in processes of its own (semantics §12).

The host never imports it. Each of its processes does, with its own `configure`, `lifespan` and event loop, and does one
call at a time; what they tell one another are lines of JSON. A process that does not answer in time is killed, and that
costs its one attempt.
"""
