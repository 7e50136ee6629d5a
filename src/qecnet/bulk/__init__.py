"""Runs over any number of files, on one machine or many: results are stored, so that an interrupted run resumes."""

from qecnet.bulk.cluster import share_on_ray
from qecnet.bulk.connection import check_address
from qecnet.bulk.journal import Journal, Origin
from qecnet.bulk.shards import Shard, find_shards, journal_path, merge_shards
from qecnet.bulk.sinks import RESULT_SUFFIXES, Columns, Row, check_results_path, print_csv, print_json, write_results
from qecnet.bulk.work import CannotWrite, Progress, Share, Work, answer_files, do_pending

__all__ = [
    "RESULT_SUFFIXES",
    "CannotWrite",
    "Columns",
    "Journal",
    "Origin",
    "Progress",
    "Row",
    "Shard",
    "Share",
    "Work",
    "answer_files",
    "check_address",
    "check_results_path",
    "do_pending",
    "find_shards",
    "journal_path",
    "merge_shards",
    "print_csv",
    "print_json",
    "share_on_ray",
    "write_results",
]
