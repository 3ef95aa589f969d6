"""What people who come from elsewhere try first, and what it is here.

By place, the names of Structured Streaming, Flink, Bytewax, pandas, Polars and others, without their underscores and in
lower case, and what to write instead. Only errors read it, so a name that exists needs no entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

_WINDOW: Final = '.key_by("user").window("1 minute", n=tw.agg.count())'
_AGGREGATE: Final = f"{_WINDOW}; .rolling(n=tw.agg.count()) gives the value so far with each row, .aggregate(...) one at the end"
_PROCESS: Final = (
    '.key_by("user").process(function, state=Class): the state is an object of a @tw.state class'
)
_SINK: Final = '.sink("out"); where its rows go is said when the flow runs: tw.run(flow, inputs, {"out": tw.to_files("out.csv")})'
_EACH: Final = '.sink("out"), and {"out": tw.each(print)} among the sinks of the run'
_RUN: Final = 'result = tw.run(flow, {"rows": rows}), and result.rows("out"); tw.start(...) and tw.spark.start(...) run it beside you'
_MAP: Final = (
    ".map(function): it is given a row and returns another record, with the fields you want"
)
_LATENESS: Final = 'order_by= and lateness= of the source: flow.source("rows", Row, order_by="ts", lateness="10 minutes")'
_SOURCE: Final = 'flow.source("rows", Row), and what it reads is said when the flow runs: tw.run(flow, {"rows": tw.files("rows.csv")})'
_SPREAD: Final = "threads= or slots= of the run; the output is the same for all of them"
_STATE: Final = (
    "a field of a @tw.state class (an int, a list, a dict), for .process(function, state=Class)"
)


def _names(texts: Mapping[str, str]) -> dict[str, str]:
    """By each single name its text."""
    return {name: text for names, text in texts.items() for name in names.split()}


#: Of streams, of those by key, too.
_STREAM: Final = _names(
    {
        "withwatermark assigntimestampsandwatermarks withtimestampassigner": _LATENESS,
        "groupby keyon partitionby keyed": '.key_by("user"), by a field or a function of the row',
        "select selectexpr withcolumn withcolumns assign rename withcolumnrenamed drop project mapvalue mapvalues":
            _MAP,
        "where query filtervalues": ".filter(function): it keeps rows for which the function is true",
        "writestream write addsink sinkto output to tofiles savetable": _SINK,
        "print show inspect foreach display peek debug": _EACH,
        "foreachbatch": '.sink("out"), and {"out": tw.batches(function)} among the sinks, tw.spark.foreach_batch(function) on Spark',
        "start run execute awaittermination collect topandas head take limit compute fetch executeandcollect": _RUN,
        "dropduplicates dropduplicateswithinwatermark distinct unique nunique": '.dedupe("id", within="10 minutes")',
        "agg count sum mean avg min max std valuecounts counts": _AGGREGATE,
        "applyinpandaswithstate transformwithstate transformwithstateinpandas mapgroupswithstate flatmapgroupswithstate"
        " statefulmap statefulflatmap stateful statefulreduce processfunction updatestatebykey reduce fold scan"
        " foldfinal reducefinal cumsum shift diff": _PROCESS,
        "timewindow tumble tumbling tumblingwindow slidingwindow hop hopping hoppingwindow windowall groupbydynamic"
        " resample foldwindow reducewindow collectwindow windowby windowedby":
            f'{_WINDOW}; with every="10 seconds" windows overlap',
        "session sessionwindow sessionize": '.key_by("user").sessions("5 minutes", n=tw.agg.count())',
        "getsideoutput sideoutput branch": '.split(choose, ["low", "high"]); late and bad rows are in .late and .rejected',
        "setparallelism parallelism rebalance repartition coalesce shuffle rescale broadcast global": _SPREAD,
        "connect coflatmap comap cogroup": "flow.operator(name, function), which reads several streams; or .join, .union",
        "uid setuid alias": "name= of the verb: state is found by it",
        "intervaljoin joinwindow": '.join(right, on="user", within="10 minutes"), or before= and after=',
        "merge concat vstack unionall unionbyname append": ".union(other), or .join(right, on=..., within=...)",
        "mergeasof asofjoin": '.join_asof(right, on="user")',
        "sort sortvalues orderbytime setindex": 'order_by= of the source, or .order_by("ts", lateness="10 minutes")',
        "explode flatten flatmapvalues": ".flat_map(function): it returns several records, or yields them",
        "mapinpandas mapinarrow mappartitions applyinpandas": ".map_batches(function)",
        "asyncmap unorderedwait orderedwait mapasyncunordered": ".map_async(function): it is awaited",
        "pipe transform via": ".apply(function): a function of streams",
        "iterate loop": "flow.feedback(...)",
        "schemaof dtypes columns printschema": ".schema",
        "explain": "flow.explain()",
        "draw plot": "flow.draw()",
    }
)  # fmt: skip

#: By the place in whose error it is told, what is tried there.
GUESSES: Final[Mapping[str, Mapping[str, str]]] = {
    "Stream": _STREAM,
    "KeyedStream": {
        **_STREAM,
        **_names(
            {
                "map filter flatmap sink split union join mapasync late rejected":
                    "it on the stream before .key_by, or on what a verb by key gives (.process, .window, ...)",
            }
        ),
    },
    "Flow": _names(
        {
            "readstream read input addsource fromcollection fromelements fromsource fromdata readtextfile table stream"
            " readcsv from": _SOURCE,
            "map filter flatmap keyby process window join sink output groupby":
                "it on a stream: flow.source(...) gives the first",
            "run execute start executeasync collect show compute awaittermination": _RUN,
            "plot visualize graph todot render describe display draws": "flow.draw(), or print(flow.explain())",
            "setparallelism": _SPREAD,
            "enablecheckpointing": 'checkpoint= of the run: tw.run(flow, inputs, checkpoint="ckpt")',
        }
    ),
    "thalweg": _names(
        {
            "readcsv scancsv readparquet scanparquet readjson readtext csv json parquet text file read":
                'tw.files("rows.csv"), as an input: tw.run(flow, {"rows": tw.files("rows.csv")})',
            "tocsv tojson toparquet writecsv sinkcsv sinkparquet filesink": 'tw.to_files("out.csv"), as a sink of the run',
            "frompandas frompolars dataframe fromarrow fromrecords fromdict":
                'rows or a pyarrow table as input: tw.run(flow, {"rows": pyarrow.Table.from_pandas(frame)})',
            "kafkasource fromkafka readkafka kafkaconsumer": 'tw.kafka("localhost:9092", "topic")',
            "kafkasink writekafka kafkaproducer": 'tw.to_kafka("localhost:9092", "topic")',
            "printsink print console stdout stdoutsink": "tw.each(print); on Spark also tw.spark.console()",
            "memory memorysink testingsink": 'nothing: sinks that are not named collect, and result.rows("out") has them',
            "testingsource fromlist fromcollection": "a list of rows as an input, tw.from_iterable, or tw.push_source()",
            "socket sockettextstream fromsocket": "tw.tcp_lines(host, port)",
            "valuestate mapstate liststate reducingstate state statefullogic statefulprocessor stateclass": _STATE,
            "hour": 'tw.hours(1), or a text: "1 hour"; the hour of a time is tw.times.hour(time)',
            "minute": 'tw.minutes(1), or a text: "1 minute"', "second": 'tw.seconds(1), or a text: "1 second"',
            "day": 'tw.days(1), or a text: "1 day"', "timedelta interval time": 'tw.duration("1 minute"), or the text itself',
            "watermark watermarkstrategy withwatermark currentwatermark": _LATENESS,
            "source input": _SOURCE, "sink output": _SINK,
            "window tumblingwindow tumblingwindower slidingwindow sessionwindow tumblingeventtimewindows tumble hop":
                f'{_WINDOW}; every= makes windows overlap, .sessions("5 minutes", ...) are sessions',
            "count sum avg mean max min collectlist first last stddev": "tw.agg, as in tw.agg.count() or tw.agg.mean(\"field\")",
            "col lit expr when udf pandasudf functions": "a plain function of the row: .map(function), .filter(function)",
            "dataflow streamexecutionenvironment sparksession pipeline app topology streamsbuilder graph job env":
                'flow = tw.Flow("name")',
            "runmain clustermain execute main": _RUN,
            "keyedprocessfunction processfunction coprocessfunction": _PROCESS,
            "simulate simulation": "import thalweg.simulate: it is not part of tw",
            "policy policies fifo scheduler": "tw.scheduling, as in tw.run(..., policy=tw.scheduling.RoundRobin())",
            "trigger": 'trigger= of tw.spark.start, every= of tw.run(..., checkpoint=)',
            "table": _SOURCE, "readstream": _SOURCE, "writestream": _SINK,
            "page servepage dashboard ui": "page=True of tw.run, tw.start or tw.spark.start",
            "version": "thalweg.version.__version__, or thalweg --version",
        }
    ),
    "tw.agg": _names(
        {
            "avg average": 'tw.agg.mean("field")',
            "collectlist collectset list tolist arrayagg groupconcat implode": 'tw.agg.collect("field", last=100)',
            "nunique distinct countdistinct": 'tw.agg.count_distinct("field")',
            "std stddevsamp stddevpop": 'tw.agg.stddev("field")', "var varsamp varpop": 'tw.agg.variance("field")',
            "median quantile percentile percentileapprox approxpercentile": 'tw.agg.approx_quantile("field", 0.5)',
            "argmax idxmax": "tw.agg.max_by", "argmin idxmin": "tw.agg.min_by",
            "size len length n": "tw.agg.count()", "any anyvalue": 'tw.agg.first("field")',
            "reduce fold custom udaf agg": "tw.aggregate, or a function of all rows of the window",
        }
    ),
    "Result": _names(
        {
            "topandas topolars df toarrow frame table dataframe": 'result["out"].to_pandas(), .to_polars() or .table',
            "collect output outputs data out values records": 'result.rows("out")',
            "late latecount rejected": "result.counts, by operator; the rows themselves leave by .late and .rejected",
            "stats metrics summary": "result.progress, and result.counts",
            "explain": "flow.explain()",
        }
    ),
    "SinkRows": _names(
        {
            "df frame dataframe": ".to_pandas() or .to_polars()",
            "show head collect tolist list topylist values data take": ".rows, a list of records; len() and [0] work, too",
            "arrow toarrow": ".table, of pyarrow", "columns schema": ".table.schema",
        }
    ),
    "Drawing": _names({"show display render plot view": '.save("flow.svg"); a notebook shows it by itself'}),
    "tw.spark": _names(
        {
            "readstream read load": 'tw.spark.files("folder", format="json"), tw.kafka(...) or another source, as an input',
            "writestream write save": "tw.spark.parquet(...), tw.to_delta(...) or another sink",
            "delta": "tw.delta(...) to read, tw.to_delta(...) to write", "kafka": "tw.kafka(...), tw.to_kafka(...)",
            "run execute": "tw.spark.start(flow, inputs, sinks, checkpoint=...)",
            "foreach": "tw.spark.foreach_batch(function)", "foreachbatch": "tw.spark.foreach_batch(function)",
            "builder getorcreate sparksession": "tw.spark.session()",
            "text orc avro": 'tw.spark.files("folder", format=...)',
        }
    ),
    "tw.scheduling": _names(
        {
            "fifo fcfs": "tw.scheduling.FirstComeFirstServed()",
            "priority priorities edf": "tw.scheduling.MultiClass(...): classes= of tw.run, or with flow.tags(priority_class=0)",
            "haren": "tw.scheduling.MultiClass, or a policy of your own from tw.scheduling.by",
            "lifo": "tw.scheduling.LastInPipeline()", "rr": "tw.scheduling.RoundRobin()",
            "scheduler": "tw.spark.Scheduler, which admits batches of queries", "pickpolicy": "tw.scheduling.PickPolicy",
        }
    ),
    "Query": _names(
        {
            "wait join": ".await_termination()", "run start": "tw.spark.start(...) again, with the same checkpoint",
            "rows collect": "a sink that keeps them: out = tw.spark.memory(), then out.rows",
            "snapshot metrics stats": ".progress()", "scale setslots setparallelism": ".rescale(slots=4)",
            "url pageurl": ".page.url, with page=True", "close": ".stop()",
        }
    ),
}  # fmt: skip

#: Options under other names: the option that is meant, and how it is written where that is not the same value.
_OPTIONS: Final[Sequence[tuple[str, str, str]]] = (
        ("output outputs sink out", "sinks", 'a dict by sink name, sinks={"out": tw.to_files("out.csv")}'),
        ("input source sources data rows", "inputs", 'a dict by source name, inputs={"rows": rows}'),
        ("parallelism workers nworkers nthreads numthreads concurrency processes cores maxworkers", "threads", ""),
        ("numpartitions partitions shufflepartitions parallelism", "slots", ""),
        ("scheduler scheduling strategy", "policy", "such as policy=tw.scheduling.RoundRobin()"),
        ("checkpointlocation checkpointdir checkpointpath recoveryconfig location statedir", "checkpoint", ""),
        ("availablenow once processingtime interval continuous", "trigger", 'trigger="available_now" or trigger="5 seconds"'),
        ("processingtime interval epochinterval checkpointinterval", "every", 'every="10 seconds", with checkpoint='),
        ("watermark withwatermark allowedlateness delay maxoutoforderness outoforderness grace", "lateness",
         'with order_by=: order_by="ts", lateness="10 minutes"'),
        ("timestamp timecolumn timestampcolumn eventtime time timefield ts", "order_by", 'the name of a field, order_by="ts"'),
        ("schema type columns dtype dtypes cls model", "record", "the class of the rows, the second argument"),
        ("key keys by on", "fields", 'names of fields, or a function, first: .key_by("user")'),
        ("init initial initialstate builder default", "state", "a @tw.state class; its defaults are how a key begins"),
        ("bootstrapservers brokers broker bootstrap", "servers", ""),
        ("gap timeout", "gap", ""),
        ("func fn f mapper udf callback", "function", ""),
        ("startingoffsets autooffsetreset offsetreset", "start", ""),
        ("ui dashboard", "page", "page=True"),
        ("slide hop step advance period stride slideinterval", "every", 'such as every="10 seconds"'),
        ("path", "inputs", 'tw.files("path") for a source, inputs={"rows": tw.files("path")}'),
)  # fmt: skip
#: Options that there are nowhere.
_NO_OPTION: Final = _names(
    {
        "outputmode mode": "there is one mode, append: a row that has left is final",
        "metrics": "tw.start(metrics=...) and tw.spark.start(metrics=...) answer /metrics as long as they run",
        "groupid": "positions in topics are in the checkpoint, so there is no group",
        "key keys by": 'keys come first and without a keyword: .key_by("user")',
        "queryname": "a query has the flow's name",
    }
)


def plain(name: str) -> str:
    """The name as the tables have it."""
    return name.replace("_", "").lower()


def hint(where: str, name: str, known: Iterable[str]) -> str:
    """What to write in place of a name that is not there; "" where nobody knows.

    Args:
        where: of ``GUESSES``.
        name: that was tried.
        known: the names that there are.
    """
    guess = plain(name)
    told = GUESSES.get(where, {}).get(guess, "")
    return told or next((one for one in known if plain(one) == guess), "")


def hint_of_option(name: str, known: Iterable[str]) -> str:
    """The same of an option, whose function has the ``known`` ones."""
    guess, there = plain(name), list(known)
    for one in there:
        if plain(one) == guess:
            return f"write {one}="
    for names, option, text in _OPTIONS:
        if option in there and guess in names.split():
            return f"{option}= is meant{': ' if text else ''}{text}"
    return _NO_OPTION.get(guess, "")
