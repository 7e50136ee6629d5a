"""Interrupts reach the commands that tests start, also where the tests themselves run in the background.

A shell starts background jobs with SIGINT ignored (nohup: SIGHUP), and commands would inherit that.
"""

import signal

for name, handler in (("SIGINT", signal.default_int_handler), ("SIGHUP", signal.SIG_DFL)):
    number = getattr(signal, name, None)  # Windows has no SIGHUP
    if number is not None and signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)
