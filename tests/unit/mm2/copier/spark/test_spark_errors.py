from __future__ import annotations

import pytest

from mm2.copier.spark import spark_errors

ABORTED = (
    "Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure: "
    "Lost task 0.0 in stage 3.0 (TID 3) (127.0.0.1 executor driver): "
)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            "[SPARK_JOB_CANCELLED] Job 3 cancelled part of cancelled job group x SQLSTATE: XXKDA",
            "cancelled",
        ),
        (
            ABORTED + "org.apache.spark.SparkException: Python worker exited unexpectedly "
            "(crashed)\n\tat org.apache.spark.api.python.BasePythonRunner",
            "the copy process was killed or crashed",
        ),
        (
            ABORTED + "org.apache.spark.api.python.PythonException: Traceback (most recent call "
            'last):\n  File "x.py", line 1, in run\n    raise ValueError("boom")\n'
            "ValueError: boom\n\n\tat org.apache.spark.api\nDriver stacktrace:",
            "ValueError: boom",
        ),
        (
            ABORTED + "org.apache.spark.api.python.PythonException: [X] Traceback (most recent "
            "call last):\n  File \"x.py\"\nKeyError: 'a'\n SQLSTATE: 38000",
            "KeyError: 'a'",
        ),
        (
            ABORTED + "org.apache.spark.SparkException: \nTraceback (most recent call last):\n"
            "pyspark.errors.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has "
            "different version: 3.9 than that in driver: 3.11, PySpark cannot run\n",
            "the executors run a different Python version: Python in worker has different version: "
            "3.9 than that in driver: 3.11, PySpark cannot run",
        ),
        (
            ABORTED + 'java.io.IOException: Cannot run program "/x/python": error=2, No such file',
            "the program /x/python is not installed on the executor: set spark.python to an "
            "interpreter that is installed on every node",
        ),
        (
            ABORTED + "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) "
            "Reason: worker lost: Not receiving heartbeat\nDriver stacktrace:",
            "the Spark executor was lost: worker lost: Not receiving heartbeat",
        ),
        (
            "Job 2 cancelled because SparkContext was shut down",
            "Spark has shut down",
        ),
        ("something new\nwith more lines", "something new"),
        ("", "Spark reported no cause"),
    ],
)
def test_a_job_failure_is_one_line(message, told):
    assert spark_errors.explain_job_failure(message) == told


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("JAVA_HOME is not set\n", "no Java found; install Java 17"),
        (
            "spark-class: line 71: /x/bin/java: No such file or directory\nCMD: bad array",
            "no Java found; install Java 17",
        ),
        ("bin/spark-class: line 71: java: command not found", "no Java found"),
        (
            "Error: LinkageError occurred\njava.lang.UnsupportedClassVersionError: org/apache",
            "the Java version is too old; Java 17 or newer is required",
        ),
        (
            "java.lang.module.FindException: Module jdk.incubator.vector not found",
            "lacks the module jdk.incubator.vector",
        ),
        (
            "ERROR StandaloneSchedulerBackend: Application has been killed. Reason: All masters "
            "are unresponsive! Giving up.",
            "no master responds at spark://m:7077",
        ),
        (
            "WARNING: noise\njava.net.BindException: Cannot assign requested address\n\tat x",
            "java.net.BindException: Cannot assign requested address",
        ),
        ("its JVM did not start in 120 s", "its JVM did not start in 120 s"),
        ("", "it printed nothing"),
    ],
)
def test_a_failed_start_says_what_to_do(output, told):
    message = spark_errors.explain_start_failure(output, master="spark://m:7077")
    assert message.startswith("starting Spark")
    assert told in message
    assert "\n" not in message
