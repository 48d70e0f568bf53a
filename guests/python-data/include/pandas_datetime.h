/* pandas has its own copies of four of numpy's functions; in one program they need other names. */
#define add_minutes_to_datetimestruct pandas_add_minutes_to_datetimestruct
#define get_datetime_metadata_from_dtype pandas_get_datetime_metadata_from_dtype
#define get_datetimestruct_days pandas_get_datetimestruct_days
#define is_leapyear pandas_is_leapyear
