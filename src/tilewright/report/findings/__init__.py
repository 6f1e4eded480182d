"""How are a check's verdicts and findings shown: text, JSON, SARIF, a page, lines of a pull request?"""
