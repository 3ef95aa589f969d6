"""Files that this process writes: formats, folders of batches, folders by the values of fields."""
