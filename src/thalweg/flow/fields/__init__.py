"""The types of fields: what each hint means, how its values travel, and how rows are read into them."""
