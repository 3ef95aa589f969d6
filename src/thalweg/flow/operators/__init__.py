"""What a flow is made of: functions as operators hold them, operator records and the library verbs."""
