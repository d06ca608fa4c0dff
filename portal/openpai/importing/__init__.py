"""What an OpenPAI cluster has, brought over: read from its REST API or from files, judged row by row, stored whole."""
