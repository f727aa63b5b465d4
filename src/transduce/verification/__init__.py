"""Whether a model fulfils what Transduce guarantees: `transduce verify`, and the same from Python.

report = verify("models/m30k")
print(report.to_text())
report.passed
"""

from transduce.verification.findings import CheckResult, Finding, Outcome, Report, Tie
from transduce.verification.run import verify
from transduce.verification.settings import QUICK, Settings

__all__ = ["QUICK", "CheckResult", "Finding", "Outcome", "Report", "Settings", "Tie", "verify"]
