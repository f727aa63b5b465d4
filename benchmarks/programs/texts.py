"""What the programs are given. Names of code, files and addresses hold "keep"; all other words are prose."""

MARKDOWN = r"""---
title: The harbour and the dog
author: Keep Author
lang: en
---

# The harbour {#keep-harbour}

The *small dog* runs over the **green grass** and [the old bridge](https://example.org/keep?a=1&b=2 "A title").
It takes 20 m^2^ of H~2~O, and `keep_code(x)` stays.[^keep1] A formula $keep_1 + x^2$ is between words.

![A picture of the river](keep.png){width=50%}

## Lists of things

- the first thing
- the *second* thing

    with a paragraph of its own

    1. a numbered thing
    2. another one with <https://example.org/keep2>

- [ ] a task that is open
- [x] a task that is done

Term of the sea
:   A definition of the term, with a [link](keep.html).

:   Another definition.

> A quotation that somebody wrote,
> over two lines, with "marks" and an em--dash.

| Left | Centre | Right |
|:-----|:------:|------:|
| a boat | *the sail* | 12.5 |
| two boats | `keep|x` | 3 |

Table: A caption of the table

``` python
def keep():
    return "keep this text"
```

$$
keep = \sum_{i=1}^{n} x_i
$$

A hard break\
is here, and ~~a mistake~~ too. See [the second heading](#lists-of-things), and a note^[An inline note with *stress*.].

<div class="keep-note">

A paragraph in a box.

</div>

* * *

The last words: caf&eacute;, 100 %, A&B, 3 < 5, and a no\ break space.

[^keep1]: The note has *two* paragraphs.

    The second one has `keep` in it.
"""

# Of MkDocs, with the extensions that its users switch on.
MKDOCS = r"""# Welcome to the harbour

The **dog** reads [the guide](guide.md#a-heading) and `keep.yml`. Press ++ctrl+k++ to search.

!!! note "A title of the note"
    The text of the note, with a [link](guide.md).

    - a thing in the note

??? warning
    A hidden warning.

=== "The first tab"

    Words in the first tab.

=== "The second tab"

    ``` sh
    keep --this "and that"
    ```

<!-- keep this comment -->

> [!TIP]
> An alert of the page.

Term of the page
:   The definition of the term.

The page has an abbreviation[^1] and {{ keep.variable }}, {% if keep %}a condition{% endif %}.

| Method | Words |
| ------ | ----- |
| `GET`  | :material-keep: fetches the thing |
| `PUT`  | updates the thing |

*[KEEP]: An explanation

[^1]: The note of the page.
"""

MDX = r"""---
title: keep
---
import Keep from '../keep/Keep'
import {keepA, keepB} from "keep";

export const keepMeta = {
  name: 'keep',
}

# The page of the dog

The dog runs <Keep id="keep" /> over the grass, and {keepMeta.name} stays.

<Keep kind="keep">

Words in the element.

</Keep>

:::note

Words in the box.

:::
"""

RST = r"""
The guide of the harbour
========================

.. toctree::

   second

The **dog** runs over the *green grass*, see :ref:`the-sea` and ``keep_code``. A [#f1]_ note is here.

.. note::

   The words of the note.

.. code-block:: python

   keep = "keep"

.. image:: keep.png
   :alt: A picture of the river

.. list-table:: The title of the table
   :header-rows: 1

   * - Name
     - Meaning
   * - boat
     - a thing that swims

.. math:: keep = x^2

.. function:: keep_function(keep)

   Returns the number of boats.

   :param keep: the name of the boat

term of the sea
   The definition of the term.

.. [#f1] The words of the footnote.
"""

RST_SECOND = """
.. _the-sea:

The second page
===============

The sea is `blue <https://example.org/keep>`_, and 20 m\\ :sup:`2` large.

.. only:: html

   Words for the screen.

#. the first step
#. the second step
"""

C = r"""
#include <libintl.h>
#define _(x) gettext (x)
int keep (int n, const char *s)
{
  /* TRANSLATORS: keep this comment */
  printf (_("The dog has %d balls and %s.\n"), n, s);
  puts (_("A message of several lines:\n  the first thing\n  the second thing\n"));
  puts (ngettext ("%d boat was found", "%d boats were found", n));
  puts (pgettext ("keep menu", "Open the window"));
  puts (_("Press <b>the button</b> for \"more\" help, see https://example.org/keep"));
  puts (_("A very long message that gettext wraps, since it has more words than a line of eighty columns can hold."));
  return 0;
}
"""

PYTHON = """
def keep(count, name):
    # Translators: keep this comment
    print(_("The boat of {name} has %(count)d sails") % {"count": count})
    print(ngettext("%(num)d day is left", "%(num)d days are left", count))
    print(_("Percent: 100%% of the sea"))
"""

SRT = """1
00:00:01,000 --> 00:00:03,500
The dog runs over
the <i>green</i> grass.

2
00:00:04,000 --> 00:00:06,000 X1:100 X2:200 Y1:300 Y2:400
- Where is the boat?
- It is in the harbour.

3
00:00:06,500 --> 00:00:09,000
{\\an8}The captain sees that

4
00:00:09,100 --> 00:00:10,000
<font color="#ff00ff">the storm</font> is coming.
"""

ASS = """[Script Info]
ScriptType: v4.00+

[V4+ Styles]
Format: Name, Fontname, Fontsize, PrimaryColour, Bold, Italic, Alignment
Style: Default,Arial,20,&H00FFFFFF,0,0,2

[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
Dialogue: 0,0:00:01.00,0:00:03.00,Default,,0,0,0,,The {\\i1}small{\\i0} boat\\Nis in the harbour.
Dialogue: 0,0:00:03.50,0:00:05.00,Default,,0,0,0,,{\\b1}The captain{\\b0} sleeps.
"""
