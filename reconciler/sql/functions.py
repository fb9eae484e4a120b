"""The functions an author may call, and what they return: an allowlist; Spark's own list holds static Java calls.

Left out on purpose: whatever depends on the moment, the session, the file or the row's place; whatever runs Java or
reads a file or a schema registry; generators; and what makes a big value of a small one (`repeat`, `sequence`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping


def words(text: str) -> list[str]:
    """Return the words of a table that is easier read as text."""
    return text.split()


USER_FUNCTION = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
"""How a user function is called: in back-ticks, as `` `package.module:function`(x) ``."""

# the value says how the result's type follows from the arguments: a type, or a rule of `result_type`
_BY_RESULT = {
    "string": """
        lower upper lcase ucase initcap trim ltrim rtrim btrim lpad rpad substring substr substring_index left right
        replace translate overlay concat_ws regexp_extract regexp_replace regexp_substr soundex base64 hex bin chr char
        format_number format_string printf date_format dayname monthname md5 sha sha1 sha2 get_json_object to_json
        to_csv array_join typeof parse_url try_parse_url url_encode url_decode split_part mask to_char to_varchar
        from_unixtime decode conv string elt quote""",
    "int": """
        length char_length character_length octet_length bit_length ascii instr locate position levenshtein find_in_set
        year month day dayofmonth dayofweek weekday dayofyear weekofyear quarter hour minute second datediff date_diff
        unix_date size cardinality array_size regexp_count regexp_instr hash json_array_length bit_count int""",
    "long": """
        unix_timestamp to_unix_timestamp unix_seconds unix_millis unix_micros xxhash64 crc32 factorial
        timestampdiff bigint width_bucket array_position""",
    "double": """
        sqrt cbrt exp expm1 ln log log10 log2 log1p pow power sin cos tan asin acos atan atan2 sinh cosh tanh asinh
        acosh atanh cot csc sec degrees radians months_between pi e hypot rint signum sign double""",
    "float": "float",
    "boolean": """
        isnull isnotnull isnan startswith endswith contains like ilike rlike regexp regexp_like array_contains
        arrays_overlap map_contains_key equal_null exists forall luhn_check is_variant_null boolean""",
    "date": """
        to_date make_date date_add date_sub add_months last_day next_day date_from_unix_date date try_make_date
        trunc""",
    "timestamptz": """
        date_trunc to_timestamp to_timestamp_ltz try_to_timestamp timestamp timestamp_seconds timestamp_millis
        timestamp_micros from_utc_timestamp to_utc_timestamp make_timestamp_ltz""",
    "timestamp": "to_timestamp_ntz make_timestamp_ntz",
    "binary": "unhex unbase64 encode to_binary try_to_binary binary",
    "first": """
        nullif nullifzero array_sort sort_array array_distinct array_compact slice filter map_filter map_concat""",
    "number": "abs negative positive",
    "shifted": "shiftleft shiftright shiftrightunsigned",
    "zero": "zeroifnull",
    "reversed": "reverse",
    "elements": "array_union array_except array_intersect array_append array_prepend array_remove array_insert",
    "same": "coalesce ifnull nvl greatest least",
    "concat": "concat",
    "arithmetic": "mod pmod try_add try_subtract try_multiply try_mod",
    "rounded": "round bround",
    "whole": "ceil ceiling floor",
    "quotient": "try_divide",
    "element": "element_at try_element_at get array_max array_min",
    "second": "nvl2",
    "unknown": """
        div decimal array map struct named_struct arrays_zip flatten transform transform_keys transform_values
        map_zip_with zip_with aggregate reduce map_keys map_values map_entries map_from_arrays map_from_entries
        str_to_map split regexp_extract_all from_json from_csv json_object_keys parse_json try_parse_json variant_get
        try_variant_get to_variant_object sentences convert_timezone make_timestamp make_dt_interval make_ym_interval
        make_interval timestampadd dateadd date_part datepart to_number try_to_number getbit""",
}
SCALAR = {name: result for result, names in _BY_RESULT.items() for name in names.split()}

SPELLING = frozenset({"conv"})
"""These make words of numbers: `conv(30704, 10, 36)` is NOW."""

FOLDED = frozenset({"typeof"})
"""Constants to Spark, whatever they read."""

NO_ARGUMENTS = frozenset({"pi", "e", "array", "map"})
"""Everything else needs one argument at least: `unix_timestamp()` is the current moment."""

LAMBDAS: Mapping[str, Mapping[int, tuple[int, ...]]] = {
    **{name: {1: (1, 2)} for name in ("transform", "filter")},
    **{name: {1: (1,)} for name in ("exists", "forall")},
    **{name: {1: (2,)} for name in ("transform_keys", "transform_values", "map_filter", "array_sort")},
    **{name: {2: (2,), 3: (1,)} for name in ("aggregate", "reduce")},
    "zip_with": {2: (2,)},
    "map_zip_with": {2: (3,)},
}
"""Where a function takes a lambda: argument position → how many variables it may have."""

UNIT_FUNCTIONS = frozenset({"timestampdiff", "timestampadd", "dateadd", "date_add", "datediff", "date_diff"})
"""With three arguments the first is a unit, written as a bare word."""
UNITS = frozenset(words("YEAR QUARTER MONTH WEEK DAY DAYOFYEAR HOUR MINUTE SECOND MILLISECOND MICROSECOND"))
INTERVAL_UNITS = frozenset(
    f"{unit}{plural}"
    for unit in words("YEAR MONTH WEEK DAY HOUR MINUTE SECOND MILLISECOND MICROSECOND")
    for plural in ("", "S")
)
EXTRACT_FIELDS = frozenset(
    words("YEAR YEAROFWEEK QUARTER MONTH WEEK DAY DAYOFWEEK DAYOFWEEK_ISO DOW DOY HOUR MINUTE SECOND")
)

MERGEABLE = frozenset({"sum", "count", "min", "max"})
AGGREGATES = {
    **dict.fromkeys(words("count count_if approx_count_distinct regr_count"), "long"),
    **dict.fromkeys(words("min max mode bit_and bit_or bit_xor"), "first"),
    **dict.fromkeys(words("bool_and bool_or every some any"), "boolean"),
    **dict.fromkeys(words("stddev stddev_pop stddev_samp std var_pop var_samp variance corr covar_pop"), "double"),
    **dict.fromkeys(words("covar_samp skewness kurtosis regr_slope regr_intercept regr_r2"), "double"),
    **dict.fromkeys(
        words("percentile percentile_approx approx_percentile collect_list collect_set array_agg"), "unknown"
    ),
    **dict.fromkeys(words("first first_value last last_value any_value max_by min_by"), "first"),
    **dict.fromkeys(words("avg mean try_avg"), "average"),
    **dict.fromkeys(words("sum try_sum"), "sum"),
    "median": "median",
}
ORDER_DEPENDENT = frozenset(
    words("first first_value last last_value any_value collect_list collect_set array_agg max_by min_by mode")
)
WINDOW_ONLY = {
    **dict.fromkeys(words("row_number rank dense_rank ntile"), "int"),
    **dict.fromkeys(words("percent_rank cume_dist"), "double"),
    **dict.fromkeys(words("lag lead nth_value"), "first"),
}

_REASONS = {
    "its value depends on the moment, the session or chance": """
        now current_date current_timestamp current_time localtimestamp curdate current_timezone rand random randn uuid
        randstr uniform shuffle monotonically_increasing_id spark_partition_id input_file_name input_file_block_start
        input_file_block_length current_user session_user user current_catalog current_database current_schema version
        current_role sysdate getdate aes_encrypt""",
    "it runs Java code": "reflect java_method try_reflect",
    "it builds a name or a call from text": "identifier",
    "it makes several rows of one": """
        explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple variant_explode
        variant_explode_outer""",
    "it reads a file or a schema registry": "from_avro to_avro from_protobuf to_protobuf read_files read_kafka",
    "it makes a big value of a small one": "repeat space sequence",
    "it stops the job on purpose": "raise_error assert_true",
}
WHY_NOT = {name: reason for reason, names in _REASONS.items() for name in names.split()}
