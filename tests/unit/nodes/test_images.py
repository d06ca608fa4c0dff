"""What the agent remembers of images, on a disk that does not always take it."""

from pathlib import Path

from nodes.agent.disk.image_use import ImageUses


def test_a_mark_that_could_not_be_written_is_written_as_soon_as_there_is_room(tmp_path: Path) -> None:
    path, image = tmp_path / "images.json", "sha256:1"
    uses = ImageUses(path)
    uses.note([image], 1)
    (tmp_path / "images.new").mkdir()  # a file that cannot be made
    uses.note_private(image)
    assert not ImageUses(path).is_private(image, has_digest=True)
    (tmp_path / "images.new").rmdir()
    uses.listing()
    uses.keep({image: True}, 2)
    assert ImageUses(path).is_private(image, has_digest=True)
